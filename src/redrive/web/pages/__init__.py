"""The dashboard: the office in a browser. A page reads what was asked, calls one verb of the office, renders.

It decides nothing, filters, masks, pages and audits nothing: that is the office's, and the same for every
face.
"""
