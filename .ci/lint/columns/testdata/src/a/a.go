package a

var fits = 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 10

var long = 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 // want `longer than 120`

var text = "one literal that alone fills more than half of the line is a text, which reads better in one piece than cut in two by the rule"

var raw = `a raw string may be as wide as what it quotes, since cutting it would change what it says to whoever reads it later on`
