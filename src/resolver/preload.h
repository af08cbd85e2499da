#pragma once

// What a resolver knows before it asks anybody: a file of lines (R-NL-8).
//
//   # comment
//   127.77.0.2  fe80::22   (an IPv4 or IPv6 address, and whose GID it is; so ibacm's hosts file)
//   storage-7   fe80::22   (a host's name)
//   path sgid=fe80::11 dgid=fe80::22 dlid=7 slid=1 [pkey=0xffff] [sl=0] [mtu=4] [rate=7] ...
//
// A path may also have lifetime=18, service=0x..., tclass=0 and qos=0, all on one line.
// MTU, rate and lifetime are IBTA's codes (vol 1 §15.2.5.16).

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "sa/path_cache.h"
#include "wire/mad/path_record.h"

namespace weft::resolver {

struct Preload {
  struct Path {
    sa::PathQuery asked;
    wire::PathRecord path;
  };
  std::map<IpAddress, Gid> addresses;
  std::map<std::string, Gid, std::less<>> names;
  std::vector<Path> paths;
};

/// Lines of one file; policy.
inline constexpr std::size_t kMaxPreloadLines = 1'000'000;

/// Fails with the number of the first line that says none of the above.
[[nodiscard]] Result<Preload> parse_preload(std::string_view text);

}  // namespace weft::resolver
