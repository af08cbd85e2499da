#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "scsi/sense.h"

namespace weft::programs::disk {

/// A command for a logical unit; data of one direction at most.
struct DiskCommand {
  ByteSpan cdb{};
  ByteSpan data_out{};
  MutableByteSpan data_in{};
};

/// How a command ended.
struct DiskAnswer {
  enum class Kind : std::uint8_t {
    Answered,     ///< with a status
    Interrupted,  ///< the connection was lost under it, and is being made again: executed, perhaps
    Gone,         ///< nobody will execute it
  };
  Kind kind{Kind::Gone};
  scsi::Status status{};
  std::vector<std::byte> sense{};
  std::size_t data_in_bytes{};  ///< that came, from the start
  std::string reason{};         ///< of Interrupted and Gone, for people
};

/// The way to a logical unit, by whatever transport. Any thread.
class DiskPath {
 public:
  virtual ~DiskPath() = default;
  /// Returns when the command has ended, which the transport's timeouts bound. The data is the
  /// caller's again.
  virtual DiskAnswer execute(const DiskCommand& command) = 0;
};

}  // namespace weft::programs::disk
