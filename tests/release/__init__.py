"""What only a fresh environment shows: the files that others get, and each command of build.sh as the first one.

No part of CI: it installs MindSpore several times. `bash build.sh release-check`, `bash build.sh fresh-check`.
"""
