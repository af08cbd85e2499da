#pragma once

// A port's device management MADs, by the libibumad that is found at run time: requests come, and
// answers go back to where they came from. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "programs/srp/umad_library.h"
#include "wire/srp/device_management.h"

namespace weft::programs::srp {

class UmadPort {
 public:
  /// NotFound: no library. NoSuchDevice: no such port, or it may not be opened. Busy: another
  /// program answers there.
  [[nodiscard]] static Result<UmadPort> open(const std::string& device, std::uint8_t port);
  UmadPort(UmadPort&& other) noexcept;
  UmadPort& operator=(UmadPort&&) = delete;
  ~UmadPort();

  [[nodiscard]] int fd() const;
  /// The next request; none: there is none now. Io: the port is gone.
  [[nodiscard]] Result<std::optional<wire::DevMgtMad>> receive();
  /// To whom the last request came from. What cannot be sent is lost, as a MAD may be.
  void answer(const wire::DevMgtMad& response);

 private:
  UmadPort(const UmadLibrary& library, int port) : library_(library), port_(port) {}

  const UmadLibrary& library_;
  int port_{-1};
  int agent_{-1};
  std::vector<std::byte> buffer_;  // with the address that it came from
};

}  // namespace weft::programs::srp
