# Packs programs of a build, and what they need that the guests lack, into a folder for them: for the scripts here.
#   pack FOLDER PROGRAM...
pack() {
    local folder=$1 program library
    shift
    mkdir -p "$folder/bin" "$folder/lib"
    cp -L "$@" "$folder/bin/"
    # libibverbs and librdmacm are found in the guest by dlopen().
    for program in "$@"; do
        ldd "$program" | sed -nE 's|^.* => (/.*) \(0x[0-9a-f]+\)$|\1|p'
    done | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libibverbs|librdmacm)[.-][^/]*$' |
        while read -r library; do
            cp -L "$library" "$folder/lib/"
        done
}
