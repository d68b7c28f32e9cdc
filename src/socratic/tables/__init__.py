"""Tables: their columns, how these become numbers, and files of them."""
