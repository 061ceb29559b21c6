"""`python -m sim`: run a script on a machine with simulated GPUs (`sim/launch.py`)."""

import sys

from sim.launch import main

if __name__ == "__main__":
    main(sys.argv[1:])
