#pragma once

// A port as who asks others uses it, by the libibumad that is found at run time: SA's tables, paths
// and notices, and other ports' device management. Calls wait, in bounds. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "programs/srp/umad_library.h"
#include "wire/mad/notice.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"
#include "wire/srp/device_management.h"

namespace weft::programs::srp {

class UmadClient {
 public:
  /// As subnet management has set it.
  struct Port {
    std::string device{};
    int number{};
    Lid lid{};
    Lid sm_lid{};
    ServiceLevel sm_sl{};
    Gid gid{};
    std::vector<PKey> pkeys{};
  };

  /// `device` empty, and `port` 0: the first that is active. NotFound: no library. NoSuchDevice: no
  /// such port, or it may not be opened.
  [[nodiscard]] static Result<std::unique_ptr<UmadClient>> open(const std::string& device,
                                                                std::uint8_t port);
  ~UmadClient();
  UmadClient(const UmadClient&) = delete;
  UmadClient& operator=(const UmadClient&) = delete;

  [[nodiscard]] const Port& port() const { return port_; }
  /// Looks at the port anew: LIDs change.
  Result<void> refresh();

  /// All records of a kind that SA shows this port. TimedOut; Io: the port is gone.
  template <wire::WireType Record>
  [[nodiscard]] Result<std::vector<Record>> get_table(wire::SaAttribute attribute);
  [[nodiscard]] Result<wire::PathRecord> get_path(const Gid& to);
  /// A request to the agent at the end of a path, and its answer.
  [[nodiscard]] Result<wire::DevMgtMad> ask(const wire::PathRecord& path,
                                            const wire::DevMgtMad& request);

  /// SA forwards this trap to this port from now on (IBTA vol 1 §13.4.11); again: still. Busy:
  /// another program of the host has the port's reports.
  Result<void> subscribe(wire::Trap trap);
  /// The next notice that SA forwarded; none: none came within the time. Io: the port is gone.
  [[nodiscard]] Result<std::optional<wire::SaNotice>> await_notice(Duration within);

 private:
  struct Destination {
    Lid lid{};
    ServiceLevel sl{};
    PKey pkey{};
  };
  struct Received {
    int status{};  ///< an errno: what was sent came back
    std::vector<std::byte> mad;
  };

  UmadClient(const UmadLibrary& library, int opened) : library_(library), opened_(opened) {}
  [[nodiscard]] Result<std::vector<std::byte>> ask_sa(wire::MadMethod method,
                                                      wire::SaAttribute attribute,
                                                      std::uint64_t mask, ByteSpan record);
  [[nodiscard]] Result<std::vector<std::byte>> exchange(int agent, const Destination& to,
                                                        ByteSpan request, int tries);
  void send(int agent, const Destination& to, ByteSpan mad, int retries);
  [[nodiscard]] Result<std::optional<Received>> receive(Instant until);
  [[nodiscard]] bool take_report(const Received& received);

  const UmadLibrary& library_;
  const int opened_;
  Port port_;
  int sa_agent_{-1};
  int device_agent_{-1};
  int report_agent_{-1};
  std::uint32_t next_transaction_{1};
  std::vector<std::byte> buffer_;  // with the address
  std::deque<wire::SaNotice> notices_;
};

/// Records of an answer of SA, headers and all. Io: they are too short.
template <wire::WireType Record>
[[nodiscard]] Result<std::vector<Record>> records_of(ByteSpan answer) {
  const auto header = wire::parse<wire::SaHeader>(answer);
  if (!header) {
    return std::unexpected(header.error());
  }
  ByteSpan data = answer.subspan(wire::kSizeOf<wire::SaHeader>);
  const std::size_t distance = std::size_t{header->attribute_offset} * 8;
  if (distance < wire::kSizeOf<Record>) {
    if (distance == 0) {
      return std::vector<Record>{};  // a table without records
    }
    return fail(ErrorCode::Io, "SA's records have {} octets; a {} has {}", distance, Record::kName,
                wire::kSizeOf<Record>);
  }
  std::vector<Record> records;
  while (data.size() >= wire::kSizeOf<Record>) {
    records.push_back(wire::unpack<Record>(data.template first<wire::kSizeOf<Record>>()));
    data = data.subspan(std::min(distance, data.size()));
  }
  return records;
}

template <wire::WireType Record>
Result<std::vector<Record>> UmadClient::get_table(wire::SaAttribute attribute) {
  const auto answer = ask_sa(wire::MadMethod::GetTable, attribute, 0, wire::pack(Record{}));
  return answer ? records_of<Record>(*answer) : std::unexpected(answer.error());
}

}  // namespace weft::programs::srp
