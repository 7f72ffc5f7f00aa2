"""From a trace to judged outcomes: what is asked, how it is asked, and what is made of the answers."""
