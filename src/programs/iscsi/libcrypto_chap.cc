#include "programs/iscsi/libcrypto_chap.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "base/assert.h"

namespace weft::programs::iscsi {

using weft::iscsi::ChapAlgorithm;

namespace {

[[nodiscard]] const char* name_of(ChapAlgorithm algorithm) {
  switch (algorithm) {
    case ChapAlgorithm::Md5:
      return "MD5";
    case ChapAlgorithm::Sha1:
      return "SHA1";
    case ChapAlgorithm::Sha256:
      return "SHA256";
    case ChapAlgorithm::Sha3With256:
      return "SHA3-256";
  }
  return "";
}

}  // namespace

std::vector<std::byte> LibcryptoChap::hash(ChapAlgorithm algorithm,
                                           std::span<const ByteSpan> pieces) {
  const std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> type{
      EVP_MD_fetch(nullptr, name_of(algorithm), nullptr), EVP_MD_free};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free};
  // A library in FIPS mode has no MD5.
  if (type == nullptr || context == nullptr ||
      EVP_DigestInit_ex(context.get(), type.get(), nullptr) != 1) {
    return {};
  }
  for (const ByteSpan piece : pieces) {
    if (EVP_DigestUpdate(context.get(), piece.data(), piece.size()) != 1) {
      return {};
    }
  }
  std::vector<unsigned char> digest(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1) {
    return {};
  }
  const ByteSpan octets = std::as_bytes(std::span{digest}).first(size);
  return {octets.begin(), octets.end()};
}

void LibcryptoChap::fill_random(MutableByteSpan octets) {
  std::vector<unsigned char> random(octets.size());
  const int filled = RAND_bytes(random.data(), static_cast<int>(random.size()));
  WEFT_ASSERT(filled == 1, "libcrypto has a source of random octets, or nobody may log in");
  copy_bytes(octets, std::as_bytes(std::span{random}));
}

}  // namespace weft::programs::iscsi
