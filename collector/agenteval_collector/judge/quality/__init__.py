"""The worth of the judge's word: the rates at which traces pass, as the judge says and as people correct it."""
