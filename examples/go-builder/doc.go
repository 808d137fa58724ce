// Command length-dpo is a builder plugin for nat-go: preferences from which length can't be learned.
//
// Scorers like long answers, and DPO on their scores teaches length first. From the candidates of each turn this
// builder takes the pair with the widest score margin among the pairs of similar length; pairs of answers of different
// length are omitted, and counted.
package main
