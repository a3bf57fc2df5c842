"""`tangram doctor`: looks at an installation and says what is wrong and how to mend it.

`collect` reads facts, the check modules judge them without I/O, `render` shows the findings, and `run` is the whole.
"""
