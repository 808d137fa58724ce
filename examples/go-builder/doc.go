// Command length-dpo is a builder plugin for nat-go: preferences in which length can't be what is learned.
//
// Scorers like long answers, and DPO on their scores teaches length first. From the candidates of each turn this
// builder takes the pair with the widest score margin among those whose lengths are close; where the widest margin of
// all is between answers of different length, that pair is left out, and counted.
package main
