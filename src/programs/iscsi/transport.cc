#include "programs/iscsi/transport.h"

#include <charconv>

namespace weft::programs::iscsi {

Result<HostAndPort> parse_host_and_port(const std::string& text) {
  HostAndPort parsed;
  const std::size_t colon = text.rfind(':');
  const char* const end = text.data() + text.size();
  if (colon == text.npos || colon + 1 == text.size() ||
      std::from_chars(text.data() + colon + 1, end, parsed.port).ptr != end) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no portal: HOST:PORT, as 127.0.0.1:3260",
                text);
  }
  parsed.host = text.substr(0, colon);
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

}  // namespace weft::programs::iscsi
