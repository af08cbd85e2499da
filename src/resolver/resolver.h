#pragma once

// A resolver in user space for a host's kernel: answers its questions for paths and addresses,
// which come by netlink (wire/local_service), from what it knows, and asks SA for the rest
// (R-NL-8). Serves the kernel's messages and those of the netlink proposal together. Pure, not
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strong.h"
#include "base/time.h"
#include "resolver/path_table.h"
#include "resolver/preload.h"
#include "sa/path_cache.h"
#include "wire/local_service/data_message.h"
#include "wire/local_service/messages.h"
#include "wire/netlink/message.h"

namespace weft::resolver {

/// A question of the resolver to SA.
using SaQuestion = Ordered<struct SaQuestionTag, std::uint64_t>;

/// What the resolver needs of its host. Nothing calls back from inside.
class ResolverServices {
 public:
  ResolverServices() = default;
  virtual ~ResolverServices() = default;
  ResolverServices(const ResolverServices&) = delete;
  ResolverServices& operator=(const ResolverServices&) = delete;

  /// To a netlink address of this host; 0 is the kernel.
  virtual void send(std::uint32_t port, std::vector<std::byte> datagram) = 0;
  /// Asks SA, which is told by Resolver::handle_path(). False: it cannot be asked now.
  virtual bool ask_sa(SaQuestion question, const sa::PathQuery& wanted) = 0;
  /// The GID of this host's first port, for questions without a source.
  [[nodiscard]] virtual Gid own_gid() const = 0;
};

struct ResolverOptions {
  PathTableLimits paths{};
  std::size_t questions{4'096};             ///< to SA at a time. Policy.
  std::size_t waiters{16'384};              ///< who wait for SA. Policy.
  Duration patience{Duration::seconds(4)};  ///< with SA; then there is no data. Policy.
};

/// Since construction; counters never decrease.
struct ResolverCounters {
  std::uint64_t requests{};
  std::uint64_t hits{};           ///< paths told from the table
  std::uint64_t negative_hits{};  ///< "SA has none", from the table
  std::uint64_t asked{};          ///< of SA
  std::uint64_t coalesced{};      ///< requests that waited for a question under way
  std::uint64_t found{};          ///< paths that SA told
  std::uint64_t no_data{};        ///< answers that there is none
  std::uint64_t malformed{};      ///< requests that are none
  std::uint64_t invalidations{};
  std::uint64_t gids{};       ///< that came or went, whose paths were forgotten
  std::uint64_t addresses{};  ///< names and addresses that were known
};

class Resolver {
 public:
  explicit Resolver(ResolverServices& services, const ResolverOptions& options = {});

  /// Shows the paths that it knows to the host, besides telling them (sa/published_paths.h).
  void show_paths(sa::PathPublisher shown) { paths_.show(shown); }
  void preload(const Preload& known);
  /// A datagram from the netlink address `from`; 0 is the kernel.
  void handle_datagram(std::uint32_t from, ByteSpan datagram, Instant now);
  /// What SA said. NetworkUnreachable: it has no such path, which is remembered for a while.
  void handle_path(SaQuestion question, const Result<wire::PathRecord>& path, Instant now);
  /// The subnet manager changed, or asked to register again: what SA said may be wrong now.
  void invalidate();
  /// SA says that the GID has come into service or gone out of it: what it said of paths there may
  /// be wrong now.
  void invalidate_to(const Gid& dgid);
  /// Tells the kernel how long to wait for this resolver.
  void set_kernel_timeout(std::uint32_t milliseconds);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const {
    return ends_.empty() ? Instant::never() : ends_.begin()->first;
  }

  [[nodiscard]] const ResolverCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t paths() const { return paths_.size(); }
  [[nodiscard]] std::size_t questions() const { return questions_.size(); }

 private:
  /// Who asked, and in which form the answer is wanted.
  enum class Form : std::uint8_t { Attributes, PathRecord, UserPath, Mad };
  struct Asker {
    std::uint32_t port{};
    std::uint32_t sequence{};
    Form form{};
    wire::local_service::DataOpcode opcode{};  // of the proposal's forms
    wire::local_service::MadData mad{};        // of Form::Mad: the request
  };
  struct Question {
    SaQuestion number;
    Instant end;
    bool is_stale{};  // the subnet changed since: what comes is told, not kept
    std::vector<Asker> askers;
  };
  struct Wish {
    sa::PathQuery path;
    bool wants_sa{};  // whatever is known
    bool waits{true};
  };

  void take(std::uint32_t from, const wire::netlink::Message& message, Instant now);
  void take_resolve(const Asker& asker, const wire::netlink::Message& message, Instant now);
  void take_ip_resolve(const Asker& asker, const wire::netlink::Message& message);
  void take_data(Asker asker, const wire::netlink::Message& message, Instant now);
  [[nodiscard]] std::optional<Wish> wish_of(const wire::local_service::DataMessage& said,
                                            Asker& asker);
  void look_up(Wish wish, Asker asker, Instant now);
  void answer(const Asker& asker, const std::optional<wire::PathRecord>& path);
  void finish(const sa::PathQuery& asked, const std::optional<wire::PathRecord>& path);

  ResolverServices& services_;
  ResolverOptions options_;
  PathTable paths_;
  std::map<IpAddress, Gid> addresses_;
  std::map<std::string, Gid, std::less<>> names_;
  std::map<sa::PathQuery, Question> questions_;
  std::map<SaQuestion, sa::PathQuery> asked_;
  std::set<std::pair<Instant, SaQuestion>> ends_;
  std::size_t waiters_{};
  std::uint64_t last_question_{};
  ResolverCounters counters_;
};

}  // namespace weft::resolver
