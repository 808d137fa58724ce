package main

func generateARM64(string) {}
