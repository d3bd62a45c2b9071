#!/bin/sh
# Stage 0: download and unpack the Debian packages of the teachers and the texts into ./debs (nothing is installed).
set -eu
cd "$(dirname "$0")"
mkdir -p debs/packages
cd debs/packages
apt-get download libflite1 libasound2 espeak-ng-data libespeak-ng1 libsonic0 libpcaudio0 wordnet-base wamerican
for package in *.deb; do dpkg -x "$package" ..; done
