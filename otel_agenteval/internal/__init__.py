"""What both packages use and users do not meet: a bounded map, texts, dataclasses that cost little."""
