#pragma once

// MADs to SA and back by libibumad, for a management interface of this process. Not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mad/mad_address.h"

namespace weft::programs {

class SaPort {
 public:
  [[nodiscard]] static Result<SaPort> open(const std::string& device, std::uint8_t port);
  SaPort(SaPort&& other) noexcept;
  SaPort& operator=(SaPort&&) = delete;
  ~SaPort();

  /// Also receives SA's reports from now on. False: another program of this host does.
  bool take_reports();

  [[nodiscard]] int fd() const;
  /// What cannot be sent is lost, as a MAD may be.
  void send(const mad::MadPacket& packet);
  /// The next answer or report; none: there is none now. Io: the port is gone.
  [[nodiscard]] Result<std::optional<mad::MadPacket>> receive();

 private:
  explicit SaPort(int port) : port_(port) {}

  int port_{-1};
  int agent_{-1};
  int pkey_index_{};  // of management's partition (IBTA vol 1 §10.9.1.1), as it is at the beginning
  int report_agent_{-1};  // none: not asked for, or another program's
  /// The upper half of a TID is the agent's, and every port has agents of its own: what this
  /// process gave is put back in answers, by the lower half.
  std::map<std::uint32_t, std::uint64_t> sent_;
  std::vector<std::byte> buffer_;
};

}  // namespace weft::programs
