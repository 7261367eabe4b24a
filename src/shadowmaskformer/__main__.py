"""`python -m shadowmaskformer` is the command `shadowmaskformer`."""

import sys

from shadowmaskformer.cli import main

sys.exit(main())
