#!/usr/bin/env bash
# Run the README's commands on a minimal Debian that has only make, python3, python3-venv, git and ca-certificates.
#
#   tools/bare_machine.sh trixie                  # or bookworm, forky: takes some minutes
#   ARCH=arm64 tools/bare_machine.sh trixie       # in the emulator qemu-user-static: takes most of an hour
#   TESTS=1 tools/bare_machine.sh trixie          # also run `make test`
#   AGAIN=1 tools/bare_machine.sh trixie          # use the system and the environment of an earlier run
#
# The script needs root and debootstrap. It prints the time until the page responds, the time until the first speech
# over HTTP, and the sizes on disk. ROOT is the folder of the system. ARGS, TORCH and TORCH_INDEX are passed to make. The
# host's DNS settings and certificates are copied, so that networks with their own certificate authorities work.
set -euo pipefail

suite=${1:?which Debian: bookworm, trixie or forky}
arch=${ARCH:-$(dpkg --print-architecture)}
root=${ROOT:-/var/tmp/voicewright-$suite-$arch}
port=${PORT:-7869}
checkout=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
packages=make,python3,python3-venv,git,ca-certificates

bootstrap() {
    local script=/usr/share/debootstrap/scripts/$suite foreign=()
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    [ "$arch" = "$(dpkg --print-architecture)" ] || foreign=(--foreign)
    debootstrap --variant=minbase --arch "$arch" "${foreign[@]}" --include "$packages" \
        "$suite" "$root" http://deb.debian.org/debian "$script"
    [ ${#foreign[@]} = 0 ] || chroot "$root" /debootstrap/debootstrap --second-stage
}

inside() {
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DEFAULT_TIMEOUT=180 PORT="$port" \
        TORCH="${TORCH:-}" TORCH_INDEX="${TORCH_INDEX:-}" bash -euc "cd /root/voicewright; $1"
}

# Kill all processes whose root directory is this system, then unmount its file systems.
finish() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/root")" != "$root" ] || kill "${process#/proc/}" 2>/dev/null || true
    done
    sleep 1
    umount -l "$root/sys" "$root/proc" "$root/dev" 2>/dev/null || true
}

[ -e "$root/bin/bash" ] || bootstrap >"$root.log" 2>&1 || { tail -n 20 "$root.log"; exit 1; }
if [ -z "${AGAIN:-}" ]; then
    rm -rf "$root/root/voicewright"
    git clone --quiet "$checkout" "$root/root/voicewright"
fi
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
trap finish EXIT
mount --rbind --make-rslave /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"

inside 'echo "== $(. /etc/os-release; echo "$PRETTY_NAME"), $(uname -m), $(python3 --version)"'
start=$(date +%s)
inside "make run ARGS='${ARGS:-}'" &
until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/"; do
    kill -0 $! || exit 1
    sleep 0.5
done
echo "== the page answers after $(($(date +%s) - start)) s"
until curl --silent --fail --output "$root/root/first.mp3" "http://127.0.0.1:$port/v1/audio/speech" \
    --header 'Content-Type: application/json' --data '{"voice": "alloy", "input": "The kettle has just boiled."}'; do
    kill -0 $! || exit 1
    sleep 0.5
done
echo "== first speech after $(($(date +%s) - start)) s: $(stat --format %s "$root/root/first.mp3") bytes"
echo "== .venv is $(du -sm "$root/root/voicewright/.venv" | cut -f 1) MB, the system $(du -smx --exclude root "$root" | cut -f 1) MB"
[ -z "${TESTS:-}" ] || inside 'make test'
