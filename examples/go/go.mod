module standin.example

go 1.21
