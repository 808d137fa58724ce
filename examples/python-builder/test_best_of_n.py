from best_of_n import Settings, best_of_n
from natgo.builder import Candidate, Example, Group, Prompt, drop


def test_the_best_is_good_enough_or_dropped():
    good, bad = Candidate(Prompt("q"), "good", 0.9), Candidate(Prompt("q"), "bad", 0.1)
    group = Group("g", [Example("e", [bad, good])])
    assert [r.messages[-1].text for r in best_of_n(group, Settings())] == ["good"]
    assert list(best_of_n(group, Settings(min_score=1))) == [drop("score_too_low", "the best score is 0.9", good)]
