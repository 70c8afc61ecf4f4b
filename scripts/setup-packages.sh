#!/usr/bin/env bash
# setup-packages.sh [FILE…]: installs the Debian packages that the lists name (scripts/packages.txt) and that are missing.
# Quick when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$#" -gt 0 ] || set -- scripts/packages.txt
mapfile -t wanted < <(grep -hEv '^(#|$)' "$@")
missing=()
for package in "${wanted[@]}"; do
  installed=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -cx installed) || installed=0
  [ "$installed" -gt 0 ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "error: these packages are missing, and there is neither root nor sudo to install them:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi

echo "==> Installing ${#missing[@]} Debian packages: ${missing[*]}"
apt_log=$(mktemp)
trap 'rm -f "$apt_log"' EXIT
apt() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@" \
      </dev/null >"$apt_log" 2>&1; then
    cat "$apt_log" >&2
    echo "error: apt-get $1 failed" >&2
    return 1
  fi
}
known() { [ -n "$(apt-cache madison "$@" 2>/dev/null)" ]; }

# A fresh machine or container has no package lists, or old ones.
for package in "${missing[@]}"; do
  if ! known "$package"; then
    apt update
    break
  fi
done
for package in "${missing[@]}"; do
  if ! known "$package"; then
    echo "error: package '$package' is unknown to apt. Intarsia is built on Debian 12 (bookworm) with its main and" >&2
    echo "security suites; LLVM 22 is in the security suite." >&2
    exit 1
  fi
done
apt install --no-install-recommends "${missing[@]}" || { apt update && apt install --no-install-recommends "${missing[@]}"; }
