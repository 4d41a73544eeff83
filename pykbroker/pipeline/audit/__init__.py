"""The measurements of topics and archives, and the page that shows them.

1. `measures` has functions from DataFrames to DataFrames. Each reads the narrow rows of `measured`, which are cached.
2. Everything after that is pure Python without Spark: `profiles` merges the rows, `remarks` writes sentences about
   them, and `page` is a function from the findings to the text of one HTML file.
3. The page needs no network and has no script. Each text of a user, such as a key, is escaped where it is inserted.
"""
