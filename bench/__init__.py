"""Speed and size, as ratios within one run: `python -m bench`, or script/bench.

A probe measures in a process of its own and answers with figures; a goal compares two figures of one run.
Nothing here is imported by the product.
"""
