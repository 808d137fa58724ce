package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes every rollout of every task.
func write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range tasks {
		for trial := range trials {
			if err := enc.Encode(rollout(&tasks[i], trial)); err != nil {
				return err
			}
		}
	}
	return nil
}

const trials = 4

// task is a user's request, and the agent's approach in each trial.
type task struct {
	id      string
	member  string
	book    string // title of the book
	days    int
	conduct [trials]conduct
}

// conduct is the agent's approach to a task.
type conduct int

const (
	looks   conduct = iota // finds the book, and reserves it
	asks                   // finds the book, asks the user, and reserves it
	guesses                // reserves without looking for the book, and finds it when that fails
	exceeds                // reserves for too long, and then for as long as allowed
	wrong                  // reserves another book
	refuses                // says that the request can't be fulfilled
)

var tasks = []task{
	{"dune", "m_1", "Dune", 14, [trials]conduct{looks, wrong, asks, refuses}},
	{"emma", "m_2", "Emma", 28, [trials]conduct{exceeds, looks, refuses, wrong}},
	{"ulysses", "m_3", "Ulysses", 28, [trials]conduct{exceeds, exceeds, asks, refuses}},
	{"walden", "m_1", "Walden", 7, [trials]conduct{guesses, looks, wrong, wrong}},
	{"beloved", "m_2", "Beloved", 21, [trials]conduct{refuses, guesses, looks, asks}},
	{"hamlet", "m_3", "Hamlet", 10, [trials]conduct{looks, asks, looks, guesses}}, // all succeed
	{"ivanhoe", "m_1", "Ivanhoe", 28, [trials]conduct{wrong, exceeds, wrong, looks}},
	{"candide", "m_2", "Candide", 3, [trials]conduct{guesses, refuses, guesses, wrong}},
	{"middlemarch", "m_9", "Middlemarch", 14, [trials]conduct{looks, asks, guesses, refuses}}, // the member may not borrow more
	{"solaris", "m_3", "Solaris", 14, [trials]conduct{looks, guesses, looks, wrong}},          // no copy is left
}

// message is a message in a conversation, as chat models read and write it.
type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// trace is a rollout as nat-go reads it.
type trace struct {
	ID       string            `json:"id"`
	Task     string            `json:"task"`
	Reward   float64           `json:"reward"`
	Messages []message         `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
}

// rollout runs the agent on a task. Its reward is 1 if the user ends up with the book.
func rollout(t *task, trial int) trace {
	d := &desk{task: t, name: fmt.Sprintf("%s-%d", t.id, trial)}
	d.say("system", policy)
	d.say("user", fmt.Sprintf(greetings[trial], t.book, t.days, t.member))
	d.serve(t.conduct[trial], trial)
	reward := 0.0
	if d.reserved == books[t.book] {
		reward = 1
	}
	return trace{ID: d.name, Task: t.id, Reward: reward, Messages: d.messages, Tools: tools}
}

const policy = "You are the desk of a library. Members reserve books for at most 28 days, and may hold 3 loans at a time. " +
	"Find the book before you reserve it."

// greetings are templates for the users' requests. They take the title, the days and the member's number.
var greetings = [trials]string{
	"Hi! I'd like to have %s for %d days. My number is %s.",
	"Could you put %s aside for me? I need it %d days, I'm %s.",
	"good morning, %s please. %d days. (%s)",
	"Is it possible to reserve %s, for %d days? You know me: %s.",
}

var thanks = [trials]string{"Thanks!", "Wonderful, bye.", "ok", "That's kind of you."}

// serve plays the agent.
func (d *desk) serve(c conduct, trial int) {
	switch c {
	case refuses:
		d.say("assistant", "I'm afraid I can't do that.")
		return
	case guesses:
		d.call("reserve", order{"b_99", d.task.member, d.task.days})
	case wrong:
		d.find("The " + d.task.book + " Companion")
		d.finish(d.reserve("b_50", d.task.days), trial)
		return
	}
	id := d.find(d.task.book)
	if c == asks {
		d.say("assistant", fmt.Sprintf("We have it. Shall I reserve %s for %d days?", d.task.book, d.task.days))
		d.say("user", "Yes, please.")
	}
	if c == exceeds && !d.reserve(id, 60) {
		d.finish(d.reserve(id, 28), trial)
		return
	}
	d.finish(d.reserve(id, d.task.days), trial)
}

// finish ends the conversation.
func (d *desk) finish(done bool, trial int) {
	if !done {
		d.say("assistant", "I could not reserve it, sorry.")
		return
	}
	d.say("assistant", "It is reserved for you.")
	d.say("user", thanks[trial])
}
