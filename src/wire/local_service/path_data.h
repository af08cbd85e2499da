#pragma once

// A path and what it is for (rdma/ib_user_sa.h, struct ib_path_rec_data): what resolvers answer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/local_service/native_fields.h"
#include "wire/mad/path_record.h"

namespace weft::wire::local_service {

/// IB_PATH_* of rdma/ib_user_sa.h, IB_NL_FLAGS_PATH_* of the netlink proposal.
inline constexpr std::uint32_t kPathGmp = 1U << 0;
inline constexpr std::uint32_t kPathPrimary = 1U << 1;
inline constexpr std::uint32_t kPathAlternate = 1U << 2;
inline constexpr std::uint32_t kPathOutbound = 1U << 3;
inline constexpr std::uint32_t kPathInbound = 1U << 4;
inline constexpr std::uint32_t kPathInboundReverse = 1U << 5;
inline constexpr std::uint32_t kPathBidirectional = kPathOutbound | kPathInboundReverse;
/// Of the proposal only: answer from what is known now, or else that there is no data.
inline constexpr std::uint32_t kNoDelay = 1U << 30;
/// Of the proposal only: the resolver is to ask SA itself, whatever it knows.
inline constexpr std::uint32_t kQuerySa = 1U << 31;

/// What a path is wanted for (enum LS_RESOLVE_PATH_USE_*).
enum class PathUse : std::uint8_t {
  All = 0,             ///< a connection: up to six records
  Unidirectional = 1,  ///< datagrams one way: one record
  Gmp = 2,             ///< management: at least one reversible record
};
inline constexpr std::uint8_t kPathUses = 3;

/// The flags that a record must have for such a use.
[[nodiscard]] constexpr std::uint32_t flags_wanted(PathUse use) {
  switch (use) {
    case PathUse::Unidirectional:
      return kPathPrimary | kPathOutbound;
    case PathUse::Gmp:
      return kPathPrimary | kPathGmp | kPathBidirectional;
    case PathUse::All:
      break;
  }
  return kPathPrimary;
}

struct PathData {
  std::uint32_t flags{};
  PathRecord path{};
  bool operator==(const PathData&) const = default;
};
inline constexpr std::size_t kPathDataBytes = 8 + kSizeOf<PathRecord>;

void put_path_data(const PathData& data, std::vector<std::byte>& out);
/// None: there are fewer octets.
[[nodiscard]] std::optional<PathData> take_path_data(ByteSpan octets);

}  // namespace weft::wire::local_service
