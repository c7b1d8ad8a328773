"""Files, terminals and optional packages: what keras_headattn and its recipes share that needs no Keras.

Importing any module of keras_headattn imports Keras. A recipe imports this package alone until its command line and its
files are known to be right.
"""
