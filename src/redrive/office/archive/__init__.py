"""Archives of dead letters: compressed JSON lines in files that prove themselves, and the way back.

An archive is written under a temporary name, brought to disk, read back, and only then named. Reading one
checks the whole file before the first letter comes out of it. By hand: `zcat FILE | head -n -1 | sha256sum`
is what its last line says. Known weakness: a file is not signed; who may write to the folder can also write
an archive that is right in itself.
"""
