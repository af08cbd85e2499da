// XRC domains, and handles of target QPs (XRC SRQs are in srq.cc). Programs of one host that open
// the same file share its domain (hca/xrc_relay.h).

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <vector>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// The XRC domain of a file, which this program has opened one or more times.
struct NamedDomain {
  host::Process* process{};
  std::uint32_t hca{};
  dev_t device{};
  ino_t inode{};
  hca::XrcDomain* engine{};
  std::uint32_t opens{};
};

std::mutex named_lock;
std::vector<NamedDomain> named;

std::mutex
    targets_lock;  // innermost: may be taken with a QP's lock held, so nothing is called under it
std::vector<QpObject*> targets;

/// The domain of the descriptor's file, created if the flags say so (ibv_open_xrcd(3)).
Result<hca::XrcDomain*> open_named(const Context& context, int fd, int oflags) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} of an XRC domain is not open", fd);
  }
  const bool is_exclusive = (oflags & O_EXCL) != 0;
  const std::lock_guard guard{named_lock};
  const auto found = std::ranges::find_if(named, [&](const NamedDomain& domain) {
    return domain.process == context.process && domain.hca == context.hca &&
           domain.device == file.st_dev && domain.inode == file.st_ino;
  });
  if (found != named.end()) {
    if (is_exclusive) {
      return fail(ErrorCode::InvalidArgument,
                  "the file's XRC domain is open already, and O_EXCL asks for a new one");
    }
    ++found->opens;
    return found->engine;
  }
  auto engine =
      context.process->open_xrc_domain(context.hca, fd, (oflags & O_CREAT) != 0, is_exclusive);
  if (engine) {
    named.push_back({.process = context.process,
                     .hca = context.hca,
                     .device = file.st_dev,
                     .inode = file.st_ino,
                     .engine = *engine,
                     .opens = 1});
  }
  return engine;
}

/// Closes the domain when this program has closed it as often as it opened it.
[[nodiscard]] Result<void> close_domain(const Context& context, hca::XrcDomain& engine) {
  const std::lock_guard guard{named_lock};
  const auto found = std::ranges::find(named, &engine, &NamedDomain::engine);
  if (found != named.end() && found->opens > 1) {
    --found->opens;
    return {};
  }
  auto closed = context.process->close_xrc_domain(context.hca, engine);
  if (closed && found != named.end()) {
    named.erase(found);
  }
  return closed;
}

ibv_xrcd* open_xrcd(ibv_context* c, ibv_xrcd_init_attr* attributes) noexcept {
  Context& context = context_of(c);
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (attributes->comp_mask != kNeeded || (attributes->oflags & ~(O_CREAT | O_EXCL)) != 0) {
    refuse(EINVAL,
           "an XRC domain is opened with a descriptor (or -1) and the flags O_CREAT and O_EXCL");
    return nullptr;
  }
  const auto engine = attributes->fd == -1
                          ? context.engine->open_xrc_domain()
                          : open_named(context, attributes->fd, attributes->oflags);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  auto object = std::make_unique<XrcDomainObject>();
  object->xrcd.context = c;
  object->engine = *engine;
  return &object.release()->xrcd;
}

int close_xrcd(ibv_xrcd* xrcd) noexcept {
  auto& object = object_of<XrcDomainObject>(xrcd);
  Context& context = context_of(xrcd->context);
  if (is_alive(context)) {
    if (object.uses.load() != 0) {
      return refuse(EBUSY, "XRC SRQs and target QPs of the domain still exist");
    }
    if (auto closed = close_domain(context, *object.engine); !closed) {
      return refuse(closed.error());
    }
  }
  delete &object;
  return 0;
}

[[nodiscard]] hca::Qp* find_target(std::uint32_t number, const hca::XrcDomain& domain) {
  const std::lock_guard guard{targets_lock};
  const auto found = std::ranges::find_if(targets, [&](const QpObject* target) {
    return is_alive(*target->context) && !target->foreign &&
           target->engine->number().value() == number && target->xrcd->engine == &domain;
  });
  return found == targets.end() ? nullptr : (*found)->engine;
}

/// The engine's part of a new handle to the target with that number. If the target belongs to
/// another process, the engine is a placeholder QP that is never connected.
struct Opened {
  hca::Qp* engine{};
  std::optional<PeerTarget> foreign;
};
Result<Opened> open_engine(const Context& context, hca::XrcDomain& domain, Qpn number) {
  if (hca::Qp* const own = find_target(number.value(), domain)) {
    return Opened{.engine = own, .foreign = std::nullopt};
  }
  const auto opened = context.process->open_target(domain, number);
  if (!opened) {
    return std::unexpected(opened.error());
  }
  if (*opened != nullptr) {
    return Opened{.engine = *opened, .foreign = std::nullopt};
  }
  hca::QpInit init;
  init.type = hca::QpType::XrcTarget;
  init.xrcd = &domain;
  const auto place = context.engine->create_qp(init);
  if (!place) {
    context.process->close_target(domain.name, number);
    return std::unexpected(place.error());
  }
  return Opened{
      .engine = *place, .foreign = PeerTarget{.domain = domain.name, .number = number}
  };
}

[[nodiscard]] hca::QpState state_of(const Context& context, const Opened& opened) {
  if (!opened.foreign) {
    return opened.engine->query().state;
  }
  const auto asked = context.process->query_target(opened.foreign->domain, opened.foreign->number);
  return asked ? asked->state : hca::QpState::Err;
}

ibv_qp* open_qp(ibv_context* c, ibv_qp_open_attr* attributes) noexcept {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr std::uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  constexpr std::uint32_t kLastQpn = 0xFF'FFFF;
  Context& context = context_of(c);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if ((attributes->comp_mask & kNeeded) != kNeeded || (attributes->comp_mask & ~kKnown) != 0 ||
      attributes->qp_type != IBV_QPT_XRC_RECV || attributes->xrcd == nullptr ||
      attributes->xrcd->context != c || attributes->qp_num > kLastQpn) {
    refuse(EINVAL, "only an XRC target QP can be opened, by its number and XRC domain");
    return nullptr;
  }
  auto& domain = object_of<XrcDomainObject>(attributes->xrcd);
  auto object = make_object<QpObject>(nullptr);
  if (!object) {
    return nullptr;
  }
  const auto opened = open_engine(context, *domain.engine, Qpn{attributes->qp_num});
  if (!opened) {
    refuse(opened.error());
    return nullptr;
  }
  ibv_qp& qp = object->qp.qp_base;
  const bool has_context = (attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
  qp.qp_context = has_context ? attributes->qp_context : nullptr;
  qp.qp_type = attributes->qp_type;
  qp.state = static_cast<ibv_qp_state>(state_of(context, *opened));
  init_qp_object(*object, c, *opened->engine);
  object->foreign = opened->foreign;
  qp.qp_num = qp.handle = attributes->qp_num;
  add_target(*object, domain);
  return &object.release()->qp.qp_base;
}

}  // namespace

void add_target(QpObject& object, XrcDomainObject& domain) {
  ++domain.uses;
  object.xrcd = &domain;
  const std::lock_guard guard{targets_lock};
  targets.push_back(&object);
}

bool remove_target(QpObject& object) {
  const std::lock_guard guard{targets_lock};
  std::erase(targets, &object);
  return std::ranges::find(targets, object.engine, &QpObject::engine) == targets.end();
}

void push_to_targets(const hca::Qp& engine, AsyncEventRecord record) {
  const std::lock_guard guard{targets_lock};
  for (QpObject* const target : targets) {
    if (target->engine == &engine) {
      record.event.element.qp = &target->qp.qp_base;
      target->context->async_events.push(record);
    }
  }
}

void push_to_targets(const PeerTarget& foreign, AsyncEventRecord record) {
  const std::lock_guard guard{targets_lock};
  for (QpObject* const target : targets) {
    if (target->foreign && target->foreign->domain == foreign.domain &&
        target->foreign->number == foreign.number && is_alive(*target->context)) {
      record.event.element.qp = &target->qp.qp_base;
      target->context->async_events.push(record);
    }
  }
}

Result<void> release_target_handle(const QpObject& object) {
  const Context& context = *object.context;
  if (!object.foreign) {
    return context.process->release_target(context.hca, *object.engine);
  }
  context.process->close_target(object.foreign->domain, object.foreign->number);
  return context.engine->destroy_qp(*object.engine);
}

void set_xrc_operations(verbs_context& verbs) {
  verbs.open_xrcd = open_xrcd;
  verbs.close_xrcd = close_xrcd;
  verbs.open_qp = open_qp;
}

}  // namespace weft::compat
