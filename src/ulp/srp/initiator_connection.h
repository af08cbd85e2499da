#pragma once

// What an initiator asks of whatever carries its channel and holds its memory. What happens is told
// to Session by its handle_ functions, never from inside these calls.

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/srp/descriptors.h"

namespace weft::srp {

/// A piece of the initiator's memory that the target may read or write under a key.
using Segment = wire::SrpDirectDescriptor;

class InitiatorConnection {
 public:
  virtual ~InitiatorConnection() = default;

  /// A new QP and CM identifier, and a REQ with this private data. An earlier connection is gone.
  virtual void connect(ByteSpan login_req) = 0;
  [[nodiscard]] virtual Result<void> post_send(ByteSpan unit) = 0;
  /// Ends the connection; after this call the peer reaches no memory under it any more.
  virtual void disconnect() = 0;
};

/// A piece of memory that has no key yet.
struct LocalPiece {
  std::uint64_t address{};
  std::uint32_t length{};  ///< octets
};

/// Memory under keys, and what has to be given back.
struct Mapping {
  std::vector<Segment> segments{};
  std::uint64_t token{};
};

/// Gives memory to the target: by fast registration, which makes one piece of many, or under one
/// global key, as the device can (R-SRPI-6).
class MemoryMapper {
 public:
  virtual ~MemoryMapper() = default;
  [[nodiscard]] virtual Result<Mapping> map(std::span<const LocalPiece> pieces) = 0;
  /// A table of descriptors in memory that the target can read.
  [[nodiscard]] virtual Result<Mapping> place_table(ByteSpan octets) = 0;
  virtual void unmap(std::uint64_t token) = 0;
};

/// What a device can do for a mapper.
struct MappingCapabilities {
  bool fast_registration{};
  bool global_key{};
};

enum class MappingKind : std::uint8_t { FastRegistration, GlobalKey };

/// As ib_srp decides: one piece needs no registration where there is a global key; NotSupported if
/// the device can do neither.
[[nodiscard]] Result<MappingKind> choose_mapping(const MappingCapabilities& device,
                                                 std::size_t pieces);

}  // namespace weft::srp
