#!/bin/sh
# Imports definitions.json into a broker as soon as it answers; run it again after a change, as often as you like.
# What stands there with other settings is refused by the broker and named below: see `redrive rabbitmq topology plan`.
#
# RABBITMQ_API       the management API           http://rabbitmq:15672
# RABBITMQ_USER      a user that may administer   guest
# RABBITMQ_PASSWORD  its password                 guest
# DEFINITIONS        the file                     definitions.json beside this script
# PATIENCE           how many seconds to wait     120
set -eu

api=${RABBITMQ_API:-http://rabbitmq:15672}
definitions=${DEFINITIONS:-$(dirname "$0")/definitions.json}

# Standard input keeps the password out of the list of processes.
ask() {
  printf 'user = "%s:%s"\n' "${RABBITMQ_USER:-guest}" "${RABBITMQ_PASSWORD:-guest}" |
    curl --config - --silent --show-error --fail-with-body --max-time 60 "$@"
}

[ -r "$definitions" ] || { echo "import: $definitions cannot be read" >&2; exit 2; }

tries=${PATIENCE:-120}
until ask --output /dev/null "$api/api/overview" 2>/dev/null; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || { echo "import: $api does not answer, or refuses this user" >&2; exit 1; }
  sleep 1
done

ask --header 'Content-Type: application/json' --data-binary "@$definitions" "$api/api/definitions"
echo "import: $definitions is imported"
