"""Rules that are simple enough to be Python: paths, comparisons, constructors, a choice, a loop.

Whatever a rule says is evaluated by Saxon. Most rules say little, and for those the way into Saxon and back costs more
than what they do. Here an expression becomes the text of a Python expression on lxml's trees, or is not simple. Nothing
here is an approximation: what a translated expression cannot say exactly (an error above all) it leaves to Saxon, by
raising `Odd` when it is evaluated.
"""
