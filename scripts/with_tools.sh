#!/usr/bin/env bash
# with_tools.sh VENV COMMAND...: runs COMMAND with the virtual environment's programs (cmake and ninja from pip) as a fallback
# for those that the system lacks.
venv=$1; shift
PATH="$PATH:$(cd "$venv" 2>/dev/null && pwd)/bin" exec "$@"
