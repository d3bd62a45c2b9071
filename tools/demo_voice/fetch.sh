#!/bin/sh
# Stage 0: download and unpack the Debian packages of the teachers and the texts into ./debs (nothing is installed).
set -eu
cd "$(dirname "$0")"
mkdir -p debs/packages
cd debs/packages
apt-get download libflite1 libasound2 espeak-ng-data libespeak-ng1 libsonic0 wordnet-base wamerican
for package in *.deb; do dpkg -x "$package" ..; done
cc -shared -fPIC -Wl,-soname,libpcaudio.so.0 -o ../usr/lib/x86_64-linux-gnu/libpcaudio.so.0 ../../silent_pcaudio.c
