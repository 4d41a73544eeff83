"""The measurements of topics and archives, and the page that shows them.

1. `measures` has functions from DataFrames to DataFrames. Each reads the narrow rows of `measured`. The rows of a
   topic are cached, and the rows of an archive are read again.
2. Everything after that is pure Python without Spark: `profiles` merges the rows, `remarks` writes sentences about
   them, and `page` is a function from the findings to the text of one HTML file.
3. The page needs no network and has no script. Jinja escapes each text that it inserts, such as a key of a user. CSS
   draws bars, whose letters keep their size on a phone, and pygal what has axes: its SVG has tips and takes the colours
   of the page, and it needs 2 MB. matplotlib needs 90, and altair, plotly and bokeh bring a script or a browser.
"""
