#!/usr/bin/env bash
# Make the keys, tokens and passwords that compose.yaml mounts, below one directory (default: the
# folder `secrets` beside this file). Nothing that exists is replaced.
#
#   docker/prepare.sh [DIRECTORY]
#
# Afterwards take DIRECTORY/keys/root and DIRECTORY/keys/policy to an offline place: no container
# needs them.
set -euo pipefail
umask 077

directory=${1:-"$(dirname "${BASH_SOURCE[0]}")/secrets"}
read -r -a reef_release <<<"${REEF_RELEASE:-reef-release}"
mkdir -p "$directory"

[ -e "$directory/keys" ] || "${reef_release[@]}" keys init --dir "$directory/keys"

mkdir -p "$directory/tokens"
for role in audit gate ingest judge operate serve sign train; do
  token=$directory/tokens/$role
  [ -e "$token" ] || "${reef_release[@]}" token create --role "$role" --dir "$directory/keys" >"$token"
done

# libpq's password file: host:port:database:user:password.
mkdir -p "$directory/database"
for user in postgres reef_service; do
  password=$directory/database/$user.password
  [ -e "$password" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$password"
  printf 'postgres:5432:reef:%s:%s\n' "$user" "$(<"$password")" >"$directory/database/$user.pgpass"
done
