"""What guards wavesim from its outside: files read and written, texts and sizes of others, signals."""
