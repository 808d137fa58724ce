module progress

go 1.26
