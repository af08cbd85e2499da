#include "ulp/ipoib/connection_data.h"

namespace weft::ipoib {

std::vector<std::byte> private_data_of(const ConnectionData& data, bool partial_checksums) {
  const auto of_rfc = wire::pack(data);
  std::vector<std::byte> made{of_rfc.begin(), of_rfc.end()};
  if (partial_checksums) {
    const auto extension = wire::pack(ConnectionExtension{.partial_checksums = true});
    made.insert(made.end(), extension.begin(), extension.end());
  }
  return made;
}

bool takes_partial_checksums(ByteSpan private_data) {
  constexpr std::size_t kExtensionAt = wire::kSizeOf<ConnectionData>;
  if (private_data.size() < kExtensionAt) {
    return false;
  }
  const auto extension = wire::parse<ConnectionExtension>(private_data.subspan(kExtensionAt));
  return extension && extension->magic == ConnectionExtension::kMagic &&
         extension->partial_checksums;
}

}  // namespace weft::ipoib
