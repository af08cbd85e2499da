#pragma once

// The kernel's side of RDMA_NL_LS: a host's SA clients ask a resolver in user space (ibacm,
// `weft resolver`) for paths, by netlink, before they ask SA (R-NL-1, R-NL-6, R-NL-7). Who may
// answer, what counts as an answer and how long one waits is decided here. Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "sa/address_source.h"
#include "sa/path_cache.h"
#include "sa/path_source.h"
#include "wire/local_service/data_message.h"
#include "wire/local_service/messages.h"
#include "wire/netlink/message.h"

namespace weft::sa {

/// The netlink of a host, as its kernel sees it.
class LocalServiceLink {
 public:
  LocalServiceLink() = default;
  virtual ~LocalServiceLink() = default;
  LocalServiceLink(const LocalServiceLink&) = delete;
  LocalServiceLink& operator=(const LocalServiceLink&) = delete;

  /// Whether anybody is in the group of local services.
  [[nodiscard]] virtual bool has_listeners() const = 0;
  /// To that group. False: nobody took it.
  virtual bool multicast(ByteSpan datagram) = 0;
  /// The path that a resolver of the host has published (PublishedPaths); none: ask.
  [[nodiscard]] virtual std::optional<wire::PathRecord> published(const PathQuery& /*asked*/,
                                                                  Instant /*now*/) const {
    return std::nullopt;
  }
};

struct LocalServiceOptions {
  /// In which form the kernel asks. Answers are understood in both.
  enum class Format : std::uint8_t {
    Attributes,  ///< as Linux does (wire/local_service/messages.h)
    DataHeader,  ///< as the proposal said (wire/local_service/data_message.h)
  };
  Format format{Format::Attributes};
  Duration timeout{Duration::milliseconds(wire::local_service::kDefaultTimeoutMs)};
  std::size_t questions{4096};  ///< that may wait; more go to SA at once. Policy.
};

/// Statistics since construction; counters never decrease.
struct LocalServiceCounters {
  std::uint64_t asked{};
  std::uint64_t published{};  ///< paths that a resolver had published, so that nobody was asked
  std::uint64_t answered{};   ///< with what was asked for
  std::uint64_t no_data{};    ///< the resolver said that it has none
  std::uint64_t unusable{};   ///< an answer that is none: malformed, or not what was asked for
  std::uint64_t timed_out{};
  std::uint64_t strangers{};  ///< messages of who may not send them, or to questions nobody asked
};

class LocalService final : public PathSource, public AddressSource {
 public:
  using QuestionId = PathSource::QuestionId;

  /// `link` must outlive it. `on_due`, if any, is called when deadline() has come nearer.
  explicit LocalService(LocalServiceLink& link, const LocalServiceOptions& options = {},
                        std::function<void()> on_due = {});

  [[nodiscard]] std::optional<wire::PathRecord> known(const wire::PathRecord& wanted,
                                                      std::uint64_t mask, Instant now) override;
  [[nodiscard]] std::optional<QuestionId> ask(const NamedPort& port, const wire::PathRecord& wanted,
                                              std::uint64_t mask, Done done, Instant now) override;
  void cancel(QuestionId question) override;
  [[nodiscard]] std::optional<QuestionId> ask_address(std::uint32_t interface_index,
                                                      const IpAddress& address, GidDone done,
                                                      Instant now) override;

  /// A message to the kernel. `is_privileged`: its sender may administer the network. Returns 0, or
  /// -EPERM for who may not say it, -EINVAL for what nobody says.
  int receive(bool is_privileged, const wire::netlink::Message& message, Instant now);

  /// Gives up what has waited too long.
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const {
    return ends_.empty() ? Instant::never() : ends_.begin()->first;
  }

  [[nodiscard]] Duration timeout() const { return timeout_; }
  [[nodiscard]] std::size_t questions() const { return questions_.size(); }
  [[nodiscard]] const LocalServiceCounters& counters() const { return counters_; }

 private:
  using Sequence = std::uint32_t;
  struct Question {
    wire::local_service::PathUse use{};
    wire::PathRecord wanted{};
    std::uint64_t mask{};
    Instant end{};
    Done done{};
    GidDone gid_done{};  // instead, of an address
  };

  [[nodiscard]] bool can_ask() const;
  [[nodiscard]] std::optional<QuestionId> send(Sequence sequence, ByteSpan datagram,
                                               Question question);
  [[nodiscard]] std::vector<std::byte> request_of(Sequence sequence, const NamedPort& port,
                                                  const Question& question) const;
  [[nodiscard]] std::optional<Question> take(Sequence sequence);
  void give_up(const Question& question, Instant now) const;
  int receive_paths(const wire::netlink::Message& message, Instant now);
  int receive_gid(const wire::netlink::Message& message, Instant now);
  int receive_data(const wire::netlink::Message& message, Instant now);
  void finish(Question& question, const std::vector<wire::local_service::PathData>& paths,
              Instant now);
  void set_timeout(std::uint32_t milliseconds);
  [[nodiscard]] Sequence next_sequence() { return ++last_sequence_; }

  LocalServiceLink& link_;
  LocalServiceOptions options_;
  std::function<void()> on_due_;
  Duration timeout_;
  Sequence last_sequence_{};
  std::map<Sequence, Question> questions_;
  std::set<std::pair<Instant, Sequence>> ends_;
  LocalServiceCounters counters_;
};

}  // namespace weft::sa
