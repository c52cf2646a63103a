#!/bin/sh
# Installs zk @VERSION@: downloads the archive of this machine, compares its digest with the one written here, and puts
# the program into ~/.local/bin. Asks nothing, needs no rights, changes no other file.
#
#   ZK_INSTALL_DIR   another folder for the program
#   ZK_INSTALL_FROM  another place of the archives, such as a mirror or file:///some/folder
set -eu

from=${ZK_INSTALL_FROM:-@BASE@}
dir=${ZK_INSTALL_DIR:-${HOME:?}/.local/bin}

fail() {
    echo "zk: $1" >&2
    exit 1
}

case $(uname -s) in
    Linux) system=unknown-linux ;;
    MINGW* | MSYS* | CYGWIN* | Windows*) fail "on Windows, zk runs inside of WSL2: run this script there" ;;
    *) fail "there are no archives for $(uname -s): build it with \`cargo install zk-harness-cli\`" ;;
esac
case $(uname -m) in
    x86_64 | amd64) cpu=x86_64 ;;
    aarch64 | arm64) cpu=aarch64 ;;
    *) fail "there are no archives for $(uname -m): build it with \`cargo install zk-harness-cli\`" ;;
esac

# The version of the C library as one number; 0 where there is another library.
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
libc=${libc:-0}
archive=
pick() { # triple, oldest C library or 0 for any, digest, C library
    if [ -z "$archive" ] && [ "$1" = "$cpu-$system-$4" ] && [ "$libc" -ge "$2" ]; then
        archive=zk-@VERSION@-$1.tar.gz
        sum=$3
    fi
}
@PICKS@
[ -n "$archive" ] || fail "no archive of @VERSION@ runs on $cpu with this C library (2.$libc): build it with \`cargo install zk-harness-cli\`"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Without encryption only from a mirror that was named so; the digest is compared anyway.
case $from in
    http://*) proto='=http' ;;
    *) proto='=https,file' ;;
esac
if command -v curl >/dev/null 2>&1; then
    curl -fsSL --proto "$proto" -o "$work/$archive" "$from/$archive" || fail "cannot download $from/$archive"
elif command -v wget >/dev/null 2>&1; then
    wget -q -O "$work/$archive" "$from/$archive" || fail "cannot download $from/$archive"
else
    fail "there is neither curl nor wget"
fi
if command -v sha256sum >/dev/null 2>&1; then
    got=$(sha256sum "$work/$archive")
else
    got=$(shasum -a 256 "$work/$archive")
fi
[ "${got%% *}" = "$sum" ] || fail "$archive is not the one that was released: its digest is ${got%% *}, not $sum; nothing was installed"
tar -xzf "$work/$archive" -C "$work"
mkdir -p "$dir"
# A program that runs cannot be written over, but its name can be given to another.
cp "$work/${archive%.tar.gz}/zk" "$dir/.zk.$$"
chmod 755 "$dir/.zk.$$"
mv -f "$dir/.zk.$$" "$dir/zk"
echo "zk @VERSION@ is in $dir"
case :$PATH: in
    *:"$dir":*) ;;
    *) echo "$dir is not in PATH: add it there" ;;
esac
