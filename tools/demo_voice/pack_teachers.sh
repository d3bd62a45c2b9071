#!/bin/sh
# Packs what the recipe reads of debs/ (fetch.sh) into one file of 13 MB, for a machine without network: relearn.sh takes it.
# Run: ./pack_teachers.sh FILE.tar.xz
set -eu
file=$(realpath "$1")
cd "$(dirname "$0")/debs"
libraries=usr/lib/x86_64-linux-gnu
set -- usr/share/dict
for part in noun verb adj adv; do set -- "$@" "usr/share/wordnet/data.$part"; done
for part in en_dict intonations phondata phonindex phontab voices lang; do set -- "$@" "$libraries/espeak-ng-data/$part"; done
for name in asound espeak-ng flite flite_cmulex flite_usenglish flite_cmu_us_slt flite_cmu_us_awb flite_cmu_us_rms pcaudio sonic; do
    for library in "$libraries/lib$name.so".*; do set -- "$@" "$library"; done
done
tar -c --owner=0 --group=0 "$@" | xz -6e > "$file"
