#pragma once

// CHAP's hashes and random octets by OpenSSL's libcrypto.

#include <span>
#include <vector>

#include "base/bytes.h"
#include "iscsi/chap.h"

namespace weft::programs::iscsi {

/// One thread at a time.
class LibcryptoChap final : public weft::iscsi::ChapLibrary {
 public:
  [[nodiscard]] std::vector<std::byte> hash(weft::iscsi::ChapAlgorithm algorithm,
                                            std::span<const ByteSpan> pieces) override;
  void fill_random(MutableByteSpan octets) override;
};

}  // namespace weft::programs::iscsi
