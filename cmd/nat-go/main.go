// Command nat-go turns AI-agent runs into training data and fine-tuning jobs.
package main

import "fmt"

func main() { fmt.Println("nat-go") }
