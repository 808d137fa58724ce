// Command length-dpo is a builder plugin for nat-go. It builds preferences that don't teach length.
//
// Scorers prefer long answers, so DPO on their scores teaches length first. For each turn, this builder takes the pair
// of candidates with the widest score margin among pairs of answers of similar length. It counts the pairs that it
// omits because the answers differ too much in length.
package main
