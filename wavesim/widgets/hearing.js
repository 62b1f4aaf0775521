// `render` of a widget that hears its kernel however late it was loaded. anywidget gives a model two seconds. In a page that
// is busy for longer the widget is drawn all the same, but every message from the kernel fails behind that limit: sliders
// move and the picture does not.
function hearing(render) {
  return (context) => {
    hear(context.model);
    return render(context);
  };
}

// Done when the model's state is what the kernel last sent.
async function hear(model) {
  const real = behind(model);
  if (!real?.comm) return;
  try {
    await real._handle_comm_msg({ content: { data: {} } }); // says nothing; fails if anywidget has given up
  } catch {
    const ours = Object.getPrototypeOf(real.constructor.prototype)._handle_comm_msg; // of a model without the limit
    const state = new Promise((arrived) => {
      real.comm.on_msg(async (message) => {
        await ours.call(real, message);
        if (message.content.data.state?._model_name) arrived(); // the whole of it
      });
    });
    real.comm.send({ method: "request_state" }); // what was sent in vain
    await state;
  }
}

// The model itself, which anywidget hands out behind a few of its functions: an event names it.
function behind(model) {
  let found = null;
  const meet = (real) => (found = real);
  model.on("change:is_met", meet);
  model.set("is_met", {});
  model.off("change:is_met", meet);
  return found;
}
