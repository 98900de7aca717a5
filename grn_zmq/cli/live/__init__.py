"""The live view, and what `grn demo` shows in it: frames are made as text, shells draw them."""
